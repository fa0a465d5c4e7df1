"""From source records to the three splits (App. B): readers, filters, decomposition, splits, and a small world as a source."""

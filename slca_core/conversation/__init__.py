"""What is said, in any form it takes: turns, tagged text, tool calls and their schemas, templates, tokens."""

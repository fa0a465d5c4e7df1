"""SGLS, the schema-grounded simulator of tools."""

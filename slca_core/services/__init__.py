"""The frozen services: what asks them, keeps their answers and counts their calls, and where they answer."""

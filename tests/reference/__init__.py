"""The methods in plain Python: slow, obvious, importing nothing compiled."""

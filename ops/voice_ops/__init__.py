"""What an operator asks before and after a deploy."""

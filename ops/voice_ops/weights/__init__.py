"""Staged weights from an operator's side: `staged` looks at what is there, `build` starts and follows the copying."""

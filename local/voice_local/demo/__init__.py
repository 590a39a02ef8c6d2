"""`make demo`: both voices deployed to the local cloud, real speech streamed through them, everything taken down."""

"""The local cloud: the stacks deploy to it and the client streams to it, unchanged, with no AWS account."""

"""The load probe: measures a server from outside, as its users see it."""

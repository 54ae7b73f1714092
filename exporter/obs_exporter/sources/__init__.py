"""How bytes are got: the only modules that touch the network, the cluster or the GPU."""

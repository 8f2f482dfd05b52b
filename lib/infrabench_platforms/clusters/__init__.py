"""Kubernetes clusters made on hosts that are reached over SSH: the same code for nodes of the lab and for real hosts.

Every component is a systemd unit of ours on the host, started from programs that lie there already; certificates and
kubeconfigs come from kubeadm. No image is pulled: pods use images that are imported from archives on the host.
"""

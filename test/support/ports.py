"""Ports of the loopback for tests that run beside other programs."""

import socket


def reserve(port=0):
    """Returns a socket that is bound to a port of all IPv4 addresses and does not listen; 0 selects a free port.

    The port rejects connections. Until the socket is closed, the kernel selects this port for no other socket, also not
    for a client that is bound to another address of 127.0.0.0/8. A program that names the port and sets SO_REUSEADDR can
    listen on it meanwhile."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("0.0.0.0", port))
    return reservation

"""Ports of the loopback for tests that run beside other programs."""

import socket


def reserve(port=0):
    """Returns a socket that is bound to a port of 127.0.0.1 and does not listen; 0 selects a free port.

    The port rejects connections. Until the socket is closed, the kernel selects this port for no other socket. A program
    that names the port and sets SO_REUSEADDR can listen on it meanwhile."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", port))
    return reservation

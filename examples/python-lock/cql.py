"""A minimal client of Cassandra's native protocol (version 4): one request at a time.

It is here so that the example needs nothing but Python. In yours use cassandra-driver,
and look at what it does by itself: a driver that executes a conditional statement again
when an answer is late must be told not to (retry and speculative execution policies).
"""
import socket
import struct

QUORUM, SERIAL = 0x0004, 0x0008
_STARTUP, _READY, _QUERY, _RESULT, _ERROR = 0x01, 0x02, 0x07, 0x08, 0x00
_BIGINT, _BOOLEAN, _INT, _TEXT = 0x0002, 0x0004, 0x0009, 0x000D
# Errors after which nothing can have happened: syntax, unauthorized, invalid, not found.
_CERTAIN = (0x2000, 0x2100, 0x2200, 0x2300)


class NoAnswer(Exception):
    """The request may have been executed, or may yet be."""


class Refused(Exception):
    """The request was refused before it could do anything."""


class Session:
    """Talks to one node at a time; after a request without an answer to the next one."""

    def __init__(self, nodes, first=0, timeout=1.5):
        self.nodes, self.at, self.timeout = nodes, first % len(nodes), timeout
        self.sock = None

    def query(self, cql, values=(), consistency=QUORUM, serial=None):
        """Returns the rows as dicts; raises NoAnswer or Refused."""
        try:
            if self.sock is None:
                self.sock = self._connect()
            return _result(*self._call(_QUERY, _query(cql, values, consistency, serial)))
        except (OSError, EOFError, struct.error) as e:
            self.close()
            self.at = (self.at + 1) % len(self.nodes)
            raise NoAnswer(str(e) or type(e).__name__) from e
        except NoAnswer:  # the node's own: it could not reach enough others
            self.at = (self.at + 1) % len(self.nodes)
            self.close()
            raise

    def close(self):
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def _connect(self):
        host, port = self.nodes[self.at].rsplit(":", 1)
        sock = socket.create_connection((host, int(port)), self.timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        opcode, _ = self._call(_STARTUP, struct.pack(">H", 1) + _string("CQL_VERSION") + _string("3.0.0"))
        if opcode != _READY:
            raise OSError("the node wants a login, which this client cannot do")
        return sock

    def _call(self, opcode, body):
        self.sock.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
        _, _, _, opcode, size = struct.unpack(">BBhBi", self._read(9))
        return opcode, self._read(size)

    def _read(self, size):
        data = bytearray()
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise EOFError("the node closed the connection")
            data += more
        return bytes(data)


def _string(s):
    b = s.encode()
    return struct.pack(">H", len(b)) + b


def _query(cql, values, consistency, serial):
    b = cql.encode()
    body = struct.pack(">i", len(b)) + b
    body += struct.pack(">HB", consistency, (0x01 if values else 0) | (0x10 if serial else 0))
    if values:
        body += struct.pack(">H", len(values))
        for v in values:  # integers are bigint here
            v = struct.pack(">q", v) if isinstance(v, int) else v.encode()
            body += struct.pack(">i", len(v)) + v
    return body + (struct.pack(">H", serial) if serial else b"")


def _result(opcode, body):
    r = _Reader(body)
    if opcode == _ERROR:
        code, text = r.int(), r.string()
        raise (Refused if code in _CERTAIN else NoAnswer)("error 0x%04x: %s" % (code, text))
    if opcode != _RESULT or r.int() != 2:  # 2: rows; else there is nothing to read
        return []
    flags, columns = r.int(), r.int()
    if flags & 0x01:  # one table for all columns
        r.string(), r.string()
    names = []
    for _ in range(columns):
        if not flags & 0x01:
            r.string(), r.string()
        names.append((r.string(), r.short()))
    return [{name: _value(kind, r.bytes()) for name, kind in names} for _ in range(r.int())]


def _value(kind, b):
    if b is None:
        return None
    return {_BIGINT: lambda: struct.unpack(">q", b)[0], _INT: lambda: struct.unpack(">i", b)[0],
            _BOOLEAN: lambda: b != b"\0", _TEXT: b.decode}[kind]()


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def short(self):
        return struct.unpack(">H", self.take(2))[0]

    def string(self):
        return self.take(self.short()).decode()

    def bytes(self):
        n = self.int()
        return None if n < 0 else self.take(n)

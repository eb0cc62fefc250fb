"""A Hive metastore with a Derby database, in a Java process of its own, from the jars of Spark.

Its own main class listens on all addresses; here its service listens on loopback.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pyspark
from py4j.java_gateway import JavaGateway

_JARS = Path(pyspark.__file__).parent / "jars"


@contextmanager
def metastore(folder: Path) -> Iterator[int]:
    """Run a metastore whose database is in this folder, and return its port."""
    options = ["-Xmx512m", f"-Dderby.stream.error.file={folder / 'derby.log'}"]
    gateway = JavaGateway.launch_gateway(classpath=f"{_JARS}/*", die_on_exit=True, javaopts=options)
    try:
        java, thrift = gateway.jvm.org.apache.hadoop.hive, gateway.jvm.org.apache.thrift
        conf = java.conf.HiveConf()
        conf.set("javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={folder / 'metastore_db'};create=true")
        conf.set("datanucleus.schema.autoCreateAll", "true")
        conf.set("hive.metastore.schema.verification", "false")
        conf.set("hive.metastore.warehouse.dir", str(folder / "warehouse"))
        handler = java.metastore.HiveMetaStore.newRetryingHMSHandler("lake", conf, True)
        socket = thrift.transport.TServerSocket(gateway.jvm.java.net.InetSocketAddress("127.0.0.1", 0))
        options_of_server = thrift.server.TThreadPoolServer.Args(socket)
        server = thrift.server.TThreadPoolServer(
            options_of_server.processor(java.metastore.TSetIpAddressProcessor(handler))
        )
        thread = Thread(target=server.serve, daemon=True)
        thread.start()
        yield socket.getServerSocket().getLocalPort()
        server.stop()
        thread.join(30)
    finally:
        gateway.shutdown()

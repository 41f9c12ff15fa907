"""An S3-compatible service for tests: moto, which keeps everything in memory, with signatures checked.

Arguments: the port, the bucket to make, and for TLS a file with certificate and key. Prints `ready KEY_ID SECRET`, of a user, and
on the same line key, secret and token that a role lends. On SIGUSR1 it stops listening, on SIGUSR2 it starts again with all
that was stored: an outage of the service. Each is told by a line, `stopped` or `started`.
"""

import logging
import signal
import ssl
import sys
import threading
import warnings

import boto3
from moto import settings
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

TRUST = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}'
POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'


def main():
    port, bucket, secured = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    # A line per request is no use to anybody.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    servers = []
    # Before any thread begins, so that none but this one takes them.
    signals = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def start():
        context = None
        if secured:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(secured[0])
        app = DomainDispatcherApplication(create_backend_app)
        server = make_server("127.0.0.1", port, app, threaded=True, ssl_context=context)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)

    start()
    ours = {
        "endpoint_url": f"{'https' if secured else 'http'}://127.0.0.1:{port}",
        "verify": False,
        "region_name": "us-east-1",
        "aws_access_key_id": "setup",
        "aws_secret_access_key": "setup",
    }
    boto3.client("s3", **ours).create_bucket(Bucket=bucket)
    iam = boto3.client("iam", **ours)
    iam.create_user(UserName="glimpse")
    iam.put_user_policy(UserName="glimpse", PolicyName="all", PolicyDocument=POLICY)
    key = iam.create_access_key(UserName="glimpse")["AccessKey"]
    role = iam.create_role(RoleName="glimpse", AssumeRolePolicyDocument=TRUST)["Role"]
    iam.put_role_policy(RoleName="glimpse", PolicyName="all", PolicyDocument=POLICY)
    lent = boto3.client("sts", **ours).assume_role(RoleArn=role["Arn"], RoleSessionName="lent")["Credentials"]
    lent = [lent[name] for name in ["AccessKeyId", "SecretAccessKey", "SessionToken"]]
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    print("ready", key["AccessKeyId"], key["SecretAccessKey"], *lent, flush=True)

    while True:
        asked = signal.sigwait(signals)
        if asked == signal.SIGTERM:
            return
        if asked == signal.SIGUSR1 and servers:
            server = servers.pop()
            server.shutdown()
            server.server_close()
            print("stopped", flush=True)
        elif asked == signal.SIGUSR2 and not servers:
            start()
            print("started", flush=True)


main()

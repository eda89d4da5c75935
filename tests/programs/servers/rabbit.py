# SPDX-License-Identifier: Apache-2.0
# Publishes and gets messages of a RabbitMQ on this machine, for so many seconds: python3 rabbit.py PORT SECONDS
import sys
import time

import pika

connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1])))
channel = connection.channel()
queue = channel.queue_declare("", exclusive=True).method.queue
channel.queue_bind(queue, "amq.topic", "orders.#")
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for i in range(50):
        channel.basic_publish("amq.topic", "orders.%d.placed" % (i % 7), b"x" * 200)
    for _ in range(50):
        channel.basic_get(queue, auto_ack=True)
connection.close()

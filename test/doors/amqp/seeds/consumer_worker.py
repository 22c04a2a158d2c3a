# consumer_worker.py
import pika
import time
import sys

def callback(ch, method, properties, body):
    message = body.decode()
    print(f"[x] Consumer {sys.argv[1] if len(sys.argv) > 1 else 'Unknown'} received: {message}")
    
    # Simulate work by sleeping
    time.sleep(2)
    
    print(f"[x] Consumer {sys.argv[1] if len(sys.argv) > 1 else 'Unknown'} finished processing")
    
    # Acknowledge the message
    ch.basic_ack(delivery_tag=method.delivery_tag)

def start_consumer():
    connection_parameters = pika.ConnectionParameters("localhost")
    connection = pika.BlockingConnection(connection_parameters)
    channel = connection.channel()
    
    # Declare the queue (in case producer hasn't run yet)
    channel.queue_declare(queue="task_queue", durable=True)
    
    # Set QoS to process one message at a time
    channel.basic_qos(prefetch_count=1)
    
    # Set up consumer
    channel.basic_consume(
        queue="task_queue",
        on_message_callback=callback,
        auto_ack=False  # Manual acknowledgment
    )
    
    consumer_id = sys.argv[1] if len(sys.argv) > 1 else "Unknown"
    print(f"[*] Consumer {consumer_id} waiting for messages. To exit press CTRL+C")
    
    try:
        channel.start_consuming()
    except KeyboardInterrupt:
        print(f"\n[!] Consumer {consumer_id} interrupted")
        channel.stop_consuming()
        connection.close()

if __name__ == "__main__":
    start_consumer()

# producer_multiple.py
import pika
import sys

def send_multiple_messages():
    connection_parameters = pika.ConnectionParameters("localhost")
    connection = pika.BlockingConnection(connection_parameters)
    channel = connection.channel()
    
    # Declare the queue
    channel.queue_declare(queue="task_queue", durable=True)
    
    # Send multiple messages
    messages = [
        "Task 1: Process order #1001",
        "Task 2: Send email to user@example.com", 
        "Task 3: Generate report for Q3",
        "Task 4: Backup database",
        "Task 5: Update inventory",
        "Task 6: Process payment #2001",
        "Task 7: Send notification",
        "Task 8: Clean up temp files"
    ]
    
    for i, message in enumerate(messages, 1):
        channel.basic_publish(
            exchange="",
            routing_key="task_queue",
            body=message,
            properties=pika.BasicProperties(
                delivery_mode=2,  # Make message persistent
            )
        )
        print(f"[x] Sent message {i}: {message}")
    
    connection.close()

if __name__ == "__main__":
    send_multiple_messages()

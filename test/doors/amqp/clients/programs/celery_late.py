from celery_app import late

print(late.delay().get(timeout=90))

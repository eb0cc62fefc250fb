"""What Dagster loads: components and your own assets, jobs, schedules and sensors."""

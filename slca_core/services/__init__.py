"""The frozen services: clients, stand-ins and process supervision."""

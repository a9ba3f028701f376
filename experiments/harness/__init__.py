"""What all experiments share: data on the device, arms, runs that are kept, figures and tables."""

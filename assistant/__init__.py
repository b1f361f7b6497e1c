"""The Assistant: losses in, weights out. Learns on the CPU which instances still have a high loss."""

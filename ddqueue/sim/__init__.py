"""A simulated SGLang server on simulated GPUs; everything it yields is labelled so."""

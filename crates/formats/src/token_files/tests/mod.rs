mod megatron;

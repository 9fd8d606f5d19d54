"""The checkpoint benchmark: a job whose rows are partly done already, ours and Ray Data's."""

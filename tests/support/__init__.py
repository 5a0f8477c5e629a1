"""What tests share: streams, the estimators, programs in interpreters of their own."""

// RUN: fuse-opt %s --fuse-unbind-slots=models=pupil -verify-diagnostics

// A model that does not exist is an error that lists the models.

// expected-error @below {{no model 'pupil'; there are teacher, student}}
module {
  fuse.model @teacher class "M" {}
  fuse.model @student class "M" {}
}

// RUN: fuse-opt %s --fuse-unbind-slots=models=pupil -verify-diagnostics

// A model that does not exist is an error that lists the models.

// expected-error @below {{no model 'pupil'; there are teacher, student}}
module {
  nn.model @teacher class "M" {}
  nn.model @student class "M" {}
}

# Hosts as a provider's resources would give them (aws_instance, openstack_compute_instance_v2, ...): here they are
# written down, so that it can be tried without any: terraform init, terraform apply, terraform output -json.
locals {
  machines = {
    rack-a-1 = { ip = "192.0.2.10", tags = { role = "server", rack = "rack-a" } }
    rack-a-2 = { ip = "192.0.2.11", tags = { role = "client", rack = "rack-a" } }
    rack-b-1 = { ip = "192.0.2.20", tags = { role = "server", rack = "rack-b" } }
    rack-b-2 = { ip = "192.0.2.21", tags = { role = "client", rack = "rack-b" } }
  }
}

output "infrabench_hosts" {
  value = [for name, each in local.machines : {
    name    = name
    address = each.ip
    user    = "admin"
    key     = "~/.ssh/bench"
    role    = each.tags.role
    site    = each.tags.rack
  }]
}

terraform {
  required_version = ">= 1.0"
}

locals {
  bench = {
    web-1  = { ip = "192.0.2.10", role = "server", rack = "rack-a" }
    load-1 = { ip = "192.0.2.11", role = "client", rack = "rack-a" }
    web-2  = { ip = "192.0.2.20", role = "server", rack = "rack-b" }
    load-2 = { ip = "192.0.2.21", role = "client", rack = "rack-b" }
  }
}

output "infrabench_hosts" {
  value = concat(
    [for name, each in local.bench : {
      name = name, address = each.ip, user = "admin", key = "~/.ssh/bench", role = each.role, roles = null,
      site = each.rack, gateway = each.rack == "rack-b" ? "bastion" : null
    }],
    [for n, role in ["control", "worker1", "worker2"] : {
      name = "node-${n}", address = "192.0.2.${30 + n}", user = null, key = "~/.ssh/bench", role = null,
      roles = ["flannel-${role}", "cilium-${role}"], site = "rack-a", gateway = null
    }],
    [{ name = "bastion", address = "198.51.100.7", user = "me", key = null, role = "gateway", roles = null, site = "rack-b", gateway = null }]
  )
}

output "secret_hosts" {
  value     = [{ address = "203.0.113.9", role = "server" }]
  sensitive = true
}

output "database_password" {
  value     = "never-to-be-seen"
  sensitive = true
}

# A site that only the office reaches.
terraform {
  required_providers {
    gatehouse = {
      source = "gatehouse.internal/gatehouse/gatehouse"
    }
  }
}

# Address and token come from GATEHOUSE_URL and GATEHOUSE_API_KEY.
provider "gatehouse" {
  wait = "applied"
}

variable "office" {
  type    = map(string)
  default = { "203.0.113.0/24" = "headquarters", "2001:db8:7::/48" = "headquarters, IPv6" }
}

resource "gatehouse_ip_policy" "office" {
  description = "office"
}

resource "gatehouse_ip_policy_rule" "office" {
  for_each     = var.office
  ip_policy_id = gatehouse_ip_policy.office.id
  action       = "allow"
  cidr         = each.key
  description  = each.value
}

resource "gatehouse_static_backend" "app" {
  address      = "app.internal:8080"
  health_check = { type = "http", path = "/healthz" }
}

resource "gatehouse_https_edge" "app" {
  hostports = ["app.example.com:443"]
}

resource "gatehouse_https_edge_route" "app" {
  edge_id         = gatehouse_https_edge.app.id
  match_type      = "path_prefix"
  match           = "/"
  backend         = { backend_id = gatehouse_static_backend.app.id }
  ip_restriction  = { ip_policy_ids = [gatehouse_ip_policy.office.id] }
  request_headers = { remove = ["Cookie"] }
}

resource "gatehouse_bot_user" "deploy" {
  name = "deploy"
}

resource "gatehouse_api_key" "deploy" {
  owner_id      = gatehouse_bot_user.deploy.id
  scopes        = ["https_edges.get", "https_edges.list"]
  allowed_cidrs = keys(var.office)
}

output "deploy_token" {
  value     = gatehouse_api_key.deploy.token
  sensitive = true
}

import { getServers } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { type Finding, failed, ok, warning } from './finding.ts'

const timeoutMs = 2_000
/** Reserved by RFC 6761, so every server knows that it does not exist. */
const question = 'gatehouse.invalid'

/** Queries each server separately. Any response proves that the server is there, even a refusal. */
export async function checkDns(setting: string, configured: readonly string[]): Promise<Finding[]> {
  const check = 'dns.servers'
  const servers = configured.length > 0 ? configured : getServers()
  const faults = await Promise.all(servers.map(faultOf))
  const silent = servers.filter((_, index) => faults[index])
  if (silent.length === 0) return [ok(check, `${servers.join(', ')} ${servers.length === 1 ? 'answers' : 'answer'}`)]
  const message = `no answer from ${silent.join(', ')}: ${faults.find(Boolean)}`
  // The system's servers were not chosen for Gatehouse, and an installation may use addresses only.
  return configured.length > 0
    ? [failed(check, message, `Correct ${setting}, or open UDP and TCP port 53 to them`)]
    : [warning(check, message, `Correct /etc/resolv.conf, or set ${setting}; names cannot be looked up otherwise`)]
}

async function faultOf(server: string): Promise<string | undefined> {
  const resolver = new Resolver({ timeout: timeoutMs, tries: 1 })
  resolver.setServers([server])
  try {
    await resolver.resolve4(question)
    return undefined
  } catch (error) {
    const { code = '' } = error as { code?: string }
    return /^(ETIMEOUT|ECONNREFUSED|EBADRESP)$/.test(code) ? code : undefined
  }
}

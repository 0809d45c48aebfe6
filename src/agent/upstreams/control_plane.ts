import { parseAddress } from '../../kernel/ip/address.ts'
import type { Service } from '../../kernel/ip/dial_policy.ts'
import { diskFiles, type Files, writeAtomically } from '../disk/files.ts'
import type { LookUp } from './dns.ts'
import { savedAddresses } from './names.ts'

/** A control plane machine, by name or address, and the ports at which it is never dialed. */
export type ControlPlaneHost = { readonly host: string; readonly ports: readonly number[] }

type Options = {
  hosts: readonly ControlPlaneHost[]
  /** Stores the addresses of names for a node that starts without DNS. */
  file: string
  /** All answers count: views of DNS may differ, and a tenant may know the addresses of each view. */
  dns: readonly LookUp[]
  onUnresolved: (host: string) => void
  onError: (error: Error) => void
  files?: Files
}

const refreshEveryMs = 15_000
/** Same time as a start waits for upstream names. */
const patienceMs = 1_000

/** Tracks the addresses of the control plane, which tenants must not reach as upstreams. */
export async function openControlPlane({ hosts, file, dns, onUnresolved, onError, files = diskFiles }: Options) {
  const isName = (host: string) => parseAddress(host) === undefined
  const names = [...new Set(hosts.map(({ host }) => host).filter(isName))]
  const known = names.length > 0 ? await savedAddresses(files, file) : new Map<string, string[]>()
  const unresolved = new Set<string>()

  async function lookUp(name: string): Promise<boolean> {
    const answers = await Promise.all(dns.map((each) => each.lookUp(name).catch(() => 'silent' as const)))
    const found = answers.flatMap((answer) => (typeof answer === 'object' ? answer.addresses : []))
    const before = known.get(name) ?? []
    // If a server does not answer, its earlier addresses stay denied.
    const addresses = [...new Set(answers.includes('silent') ? [...before, ...found] : found)].sort()
    if (addresses.length === 0) {
      if (!unresolved.has(name) && before.length === 0) onUnresolved(name)
      unresolved.add(name)
      return false
    }
    unresolved.delete(name)
    known.set(name, addresses)
    return addresses.join() !== [...before].sort().join()
  }

  let isSaved = true
  async function refresh(): Promise<void> {
    const changes = await Promise.all(names.map(lookUp))
    if (changes.includes(true)) isSaved = false
    if (isSaved) return
    isSaved = true
    const used = names.flatMap((name) => (known.has(name) ? [[name, known.get(name)]] : []))
    await writeAtomically(files, file, [JSON.stringify(Object.fromEntries(used))]).catch((error) => {
      isSaved = false
      onError(error)
    })
  }

  let refreshing = refresh()
  const { promise: isLate, resolve } = Promise.withResolvers<void>()
  const patience = setTimeout(resolve, patienceMs)
  await Promise.race([refreshing, isLate])
  clearTimeout(patience)
  const timer = setInterval(() => {
    refreshing = refreshing.then(refresh)
  }, refreshEveryMs).unref()

  return {
    services: (): Service[] =>
      hosts.flatMap(({ host, ports }) =>
        (isName(host) ? (known.get(host) ?? []) : [host]).map((address) => ({ address, ports })),
      ),
    async stop(): Promise<void> {
      clearInterval(timer)
      for (const each of dns) each.stop()
      await refreshing
    },
  }
}

import { parseAddress } from '../../kernel/ip/address.ts'
import { type Files, writeAtomically } from '../disk/files.ts'
import type { Answer } from './dns.ts'

const refreshEveryMs = 15_000
/** Doubled after each failure up to these limits: an absent name may appear soon, while a silent one costs time. */
const longestPauseMs = { absent: 60_000, silent: 300_000 }

export type Name = {
  /** Sorted except for the first address, which stays first while DNS returns it. */
  addresses: readonly string[]
  /** DNS was queried at least once, or its answer was saved. */
  isAsked: boolean
  users: Set<string>
  lanes: Set<string>
  failures: number
  askAt: number
}

/** The names in use and the backends that use them. Unused names are forgotten. */
export function createNames(saved: ReadonlyMap<string, readonly string[]>) {
  const names = new Map<string, Name>()
  const hosts = new Map<string, string>()

  function of(host: string): Name {
    let name = names.get(host)
    if (!name) {
      const addresses = saved.get(host) ?? []
      name = { addresses, isAsked: addresses.length > 0, users: new Set(), lanes: new Set(), failures: 0, askAt: 0 }
      names.set(host, name)
    }
    return name
  }

  function forget(key: string): void {
    const host = hosts.get(key)
    if (host === undefined) return
    hosts.delete(key)
    const users = names.get(host)?.users
    if (users?.delete(key) && users.size === 0) names.delete(host)
  }

  return {
    of,
    forget,
    get: (host: string): Name | undefined => names.get(host),
    all: (): Iterable<[host: string, name: Name]> => names,
    unresolved: (): number =>
      names.values().reduce((count, { addresses, users }) => count + (users.size && addresses.length === 0 ? 1 : 0), 0),
    use(key: string, host: string): Name {
      if (hosts.get(key) !== host) forget(key)
      hosts.set(key, host)
      const name = of(host)
      name.users.add(key)
      return name
    },
  }
}

/** Maximum addresses used of a name; each one becomes a server. */
const maxAddresses = 16

export function learn(name: Name, answer: Answer): boolean {
  const failed = typeof answer === 'string'
  name.isAsked = true
  name.failures = failed ? name.failures + 1 : 0
  name.askAt = Date.now() + pauseAfter(failed ? answer : undefined, name.failures)
  if (failed || answer.addresses.length === 0) return false
  // The first address stays while DNS returns it: rotating answers must not move every connection. If there are more
  // answers than servers allowed, the current ones stay.
  const { addresses: before } = name
  const answers = new Set(answer.addresses)
  const kept = before.filter((address) => answers.has(address))
  const added = [...answers].filter((address) => !before.includes(address))
  const addresses = [...kept, ...added].slice(0, maxAddresses)
  name.addresses = [...addresses.slice(0, 1), ...addresses.slice(1).sort()]
  return name.addresses.length !== before.length || name.addresses.some((address, index) => address !== before[index])
}

/** Jittered, so that names which arrived together are not queried together forever. */
function pauseAfter(failure: 'absent' | 'silent' | undefined, failures: number): number {
  const pause = failure ? Math.min(refreshEveryMs * 2 ** (failures - 1), longestPauseMs[failure]) : refreshEveryMs
  return pause * (0.9 + Math.random() * 0.2)
}

/** Saves the addresses of names in use, so that a node can start without DNS. */
export function createAddressFile(
  files: Files,
  file: string,
  names: Iterable<[host: string, name: Name]>,
  onError: (error: Error) => void,
) {
  let isOutdated = false
  return {
    outdate(): void {
      isOutdated = true
    },
    async save(): Promise<void> {
      if (!isOutdated) return
      isOutdated = false
      const used = [...names].filter(([, { addresses, users }]) => addresses.length > 0 && users.size > 0)
      const text = JSON.stringify(Object.fromEntries(used.map(([host, { addresses }]) => [host, addresses])))
      await writeAtomically(files, file, [text]).catch((error) => {
        isOutdated = true
        onError(error)
      })
    },
  }
}

/** Empty if a power cut or an edit has damaged the file. Names are then resolved as on a first start. */
export async function savedAddresses(files: Files, file: string): Promise<Map<string, string[]>> {
  try {
    const saved = Object.entries(JSON.parse(`${await files.read(file)}`))
    // An earlier version stored a single address.
    const lists = saved.map(([host, addresses]): [string, unknown[]] => [host, [addresses].flat()])
    return new Map(lists.filter((entry): entry is [string, string[]] => entry[1].every(isAddress)))
  } catch {
    return new Map()
  }
}

const isAddress = (value: unknown): boolean => typeof value === 'string' && parseAddress(value) !== undefined

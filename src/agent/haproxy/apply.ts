import { systemTiming } from '../../kernel/system_timing.ts'
import type { NameServer } from '../certificates/name_server.ts'
import { diskFiles, type Files } from '../disk/files.ts'
import { certificatesOf } from './certificates.ts'
import { createComparison } from './comparison/comparison.ts'
import { createOtherComparison } from './comparison/other_comparison.ts'
import { writeAnswerFiles } from './config/answers.ts'
import { createConfigFile } from './config/config_file.ts'
import { createLoading } from './loading.ts'
import { askedFor } from './maps/asked_for.ts'
import { Claims } from './maps/claims.ts'
import { backendOf, type Entry } from './maps/entries.ts'
import { type Change, createMapEnforcement } from './maps/map_enforcement.ts'
import { createMapFiles } from './maps/map_files.ts'
import { whyShadowed } from './maps/shadowed.ts'
import { createHealthReader } from './native/health.ts'
import { createNatives } from './native/natives.ts'
import { createLifetime, type Drain, type ProxyOptions } from './process/lifetime.ts'
import { haproxyProcess } from './process/process.ts'
import { mapRuntime } from './process/runtime.ts'
import { createTurns } from './process/turns.ts'
import { endSessionsFrom, formerDestinations } from './sessions.ts'
import { mapFolder, type ProxySettings, policyFolder } from './settings.ts'
import { createTenantCertificates } from './tenant_certificates.ts'

export type EdgeProxy = {
  /** Attaches to a running HAProxy or starts one; resolves when exactly these entries are in force. */
  start: (all: Iterable<Entry>) => Promise<void>
  /**
   * Resolves once HAProxy has the change; parts of it may be in force earlier. If HAProxy rejects a change, the agent
   * writes and loads everything instead. Rejects when that fails too, and then retries the whole with the next change.
   */
  apply: (change: Change) => Promise<void>
  shadowed: (entry: Entry) => string | undefined
  /** Ends the open connections of TCP edges, even of deleted ones. Resolves to the number of ended connections. */
  closeSessions: (targets: readonly string[]) => Promise<number>
  closeSessionsFrom: (isRefused: (source: string) => boolean) => Promise<void>
  /** Loads the certificate folder as it is now. The agent also does this regularly. */
  loadCertificates: () => Promise<void>
  /** Certificates of accounts, by host name. */
  names: NameServer
  /** Call this when HAProxy logs that a server of this native backend is up or down. */
  serverChanged: (native: string) => void
  natives: () => { nativeBackends: number; nativeServers: number; retiredBackends: number }
  /** Ends HAProxy after giving clients time to move and requests time to finish. */
  drain: (drain: Drain) => Promise<void>
  stop: () => Promise<void>
  /** Leaves HAProxy running without the agent. */
  detach: () => Promise<void>
}

export function createProxy(settings: ProxySettings, options: ProxyOptions = {}): EdgeProxy {
  const timing = options.timing ?? systemTiming
  const runtime = mapRuntime(settings)
  const disk = options.files ?? diskFiles
  const haproxy = haproxyProcess(settings)
  const former = formerDestinations()
  const trouble = (error: unknown) => options.onTrouble?.(error as Error)
  const certificates = certificatesOf(settings, disk, trouble)
  const tenants = createTenantCertificates(settings, disk, certificates)
  // Serialized, because the files have to follow the order in which HAProxy is lost, changed and reloaded.
  const turns = createTurns()
  const claims: Claims = new Claims((entry, isThere) => natives.note(entry, isThere))
  const natives = createNatives(
    { settings, turns, trouble, onHealth: (seen) => options.onHealth?.(seen) },
    claims.holder.bind(claims),
  )
  const config = createConfigFile(settings, natives.config, disk)
  const files = createMapFiles(settings, claims, config, disk, timing)
  const loading = createLoading({
    ...{ timing, runtime, haproxy, claims, natives, config, files, certificates, tenants, trouble },
  })
  const { fallBack, catchUpNatives: started } = loading
  const lifetime = createLifetime(
    { timing, haproxy, files, certificates, turns, fallBack, started, readHealth, trouble },
    options,
  )

  const { isOver } = lifetime
  const differencesOfOthers = createOtherComparison(settings, disk, { natives, certificates, tenants })
  const comparison = createComparison(
    { timing, runtime, claims, turns, loading, isOver, trouble, differencesOfOthers },
    options,
  )
  const maps = createMapEnforcement({ runtime, haproxy, claims, natives, config, files, loading, isOver })

  async function start(all: Iterable<Entry>): Promise<void> {
    await prepareFolders(settings, disk)
    await maps.start(all, () => tenants.open((name) => askedFor(claims, name)))
    lifetime.begin()
    comparison.begin()
  }

  async function apply(change: Change): Promise<void> {
    former.note(change)
    await maps.apply(change)
  }

  async function readHealth(names?: Iterable<string>): Promise<void> {
    if (await natives.readHealth(names)) files.outdate(['config'])
  }

  async function end(work: () => void | Promise<void>): Promise<void> {
    comparison.end()
    await natives.stop()
    await lifetime.end(work)
  }

  return {
    start: (all) => turns.next(() => start(all)),
    apply: (change) => turns.next(() => apply(change)),
    shadowed: (entry) => whyShadowed(settings, claims, entry) ?? natives.fault(backendOf(entry)),
    closeSessions: (targets) => turns.next(() => former.closeSessions(settings, targets, claims)),
    closeSessionsFrom: (isRefused) => turns.next(() => endSessionsFrom(settings, isRefused)),
    loadCertificates: () => turns.next(certificates.load),
    names: {
      taken: certificates.names,
      // A failure is retried after two seconds: no change of an edge waits for a file.
      lookForFiles: () => turns.next(certificates.load).catch(trouble),
      takenUntil: certificates.expiry,
      takenPem: (file) => turns.next(() => certificates.pem(file)),
      served: tenants.served,
      serve: (change) => turns.next(() => tenants.serve(change)),
    },
    serverChanged: createHealthReader((natives) => readHealth(natives).catch(trouble)),
    natives: natives.state,
    drain: lifetime.drain,
    stop: () => end(haproxy.stop),
    detach: () => end(haproxy.detach),
  }
}

async function prepareFolders(settings: ProxySettings, disk: Files): Promise<void> {
  for (const folder of [settings.folder, mapFolder(settings), policyFolder(settings), settings.certificateFolder])
    await disk.makeFolder(folder, 0o700)
  await writeAnswerFiles(settings, disk)
}

import type { Timing } from '../../kernel/timing.ts'
import type { Certificates } from './certificates.ts'
import type { ConfigFile } from './config/config_file.ts'
import type { Claims } from './maps/claims.ts'
import { bringUpToDate, changeAndReadBack } from './maps/map_changes.ts'
import type { createMapFiles } from './maps/map_files.ts'
import type { Natives } from './native/natives.ts'
import type { HaproxyProcess } from './process/process.ts'
import { reloadGently } from './process/reload.ts'
import type { MapRuntime } from './process/runtime.ts'
import type { TenantCertificates } from './tenant_certificates.ts'

type Parts = {
  timing: Timing
  runtime: MapRuntime
  haproxy: HaproxyProcess
  claims: Claims
  natives: Pick<Natives, 'catchUp'>
  config: Pick<ConfigFile, 'toggleNatives'>
  files: Pick<ReturnType<typeof createMapFiles>, 'outdate' | 'flush'>
  certificates: Pick<Certificates, 'prepare' | 'load'>
  tenants: Pick<TenantCertificates, 'isInForce'>
  trouble: (error: unknown) => void
}

/** Loads the complete state into HAProxy: from files, or by comparing and changing a running one. */
export function createLoading(parts: Parts) {
  const { timing, runtime, haproxy, claims, natives, config, files, certificates, tenants, trouble } = parts
  let isInDoubt = false
  let loads = 0

  /** A native backend that HAProxy cannot parse must not keep the node down. */
  function fallBack(): boolean {
    files.outdate(['config'])
    return config.toggleNatives()
  }

  async function catchUpNatives(): Promise<void> {
    await changeAndReadBack(runtime, claims, claims.change(await natives.catchUp()))
  }

  async function prepareFiles(): Promise<void> {
    await files.flush()
    await certificates.prepare()
    await checkFiles(parts, fallBack)
  }

  async function startFromFiles(): Promise<void> {
    loads++
    if (haproxy.isAlive()) await reloadGently(haproxy, { timing, prepare: prepareFiles, isUrgent: isInDoubt, trouble })
    else {
      await prepareFiles()
      await haproxy.start()
    }
    await catchUpNatives()
  }

  async function reload(failure: string, cause: unknown): Promise<void> {
    trouble(new Error(`${failure}; reloading the whole configuration`, { cause }))
    files.outdate()
    await startFromFiles()
  }

  return {
    startFromFiles,
    reload,
    catchUpNatives,
    fallBack,

    /** Adopts what an earlier agent has left. The files follow; see lifetime.ts. */
    async catchUp(): Promise<void> {
      await catchUpNatives()
      await bringUpToDate(runtime, claims)
      // A failed copy is retried: see process/lifetime.ts.
      await certificates.load().catch(trouble)
      if (!(await tenants.isInForce())) throw new Error('it serves other certificates of accounts than are on disk')
    },

    /** `check` throws if HAProxy does not have what it should after the reload. */
    async orElseReload(failure: string, work: () => Promise<void>, check = async () => {}): Promise<void> {
      try {
        if (isInDoubt) throw new Error('an earlier change was not accepted')
        await work()
      } catch (cause) {
        isInDoubt = true
        await reload(failure, cause)
        await check()
        isInDoubt = false
      }
    },
    /** HAProxy's state differs from the agent's and will be loaded again. */
    isInDoubt: (): boolean => isInDoubt,
    /** Changes with every complete load. */
    loads: (): number => loads,
  }
}
async function checkFiles({ haproxy, files, trouble }: Parts, fallBack: () => boolean): Promise<void> {
  try {
    await haproxy.check()
  } catch (error) {
    if (!fallBack()) throw error
    await files.flush()
    await haproxy.check().catch((other) => {
      fallBack()
      throw other
    })
    trouble(new Error('HAProxy refuses a native backend; adding them one by one', { cause: error }))
  }
}
export type Loading = ReturnType<typeof createLoading>

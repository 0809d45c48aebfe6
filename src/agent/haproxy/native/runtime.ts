import { setTimeout } from 'node:timers/promises'
import { statRows } from '../lines/stats.ts'
import { ask, converse, joinedLines, RuntimeError } from '../process/runtime.ts'
import type { ProxySettings } from '../settings.ts'
import { creation, creationFault, type IsDown, publication, revival } from './commands.ts'
import { type Definition, nativeName } from './definition.ts'
import { isAsMade } from './servers.ts'

export type Refused = { readonly definition: Definition; readonly reason: string }

/** Resolves to the backends that HAProxy rejected, after removing all traces of them. */
export async function createBackends(
  settings: ProxySettings,
  definitions: Iterable<Definition>,
  isDown: IsDown,
): Promise<Refused[]> {
  const refused: Refused[] = []
  for (const definition of definitions) {
    const fault = await faultOf(settings, [...joinedLines(creation(definition, isDown)), publication(definition)])
    if (fault === undefined && (await isAsMade(settings, definition))) continue
    await removeNow(settings, definition.name)
    const why = fault === undefined ? 'shows other servers than it was given' : `answered ${fault.slice(0, 200)}`
    refused.push({ definition, reason: `is not served by this node: HAProxy ${why}` })
  }
  return refused
}

/** HAProxy executes a line to its end even if part of it fails. After a fault, no further line is sent. */
async function faultOf({ runtimeSocket }: ProxySettings, lines: readonly string[]): Promise<string | undefined> {
  for await (const { answer } of converse(runtimeSocket, lines)) {
    const fault = creationFault(answer)
    if (fault) return fault
  }
  return undefined
}

/** For a backend that still has all its servers. */
export async function revive(settings: ProxySettings, definition: Definition): Promise<void> {
  const fault = await faultOf(settings, [...joinedLines(revival(definition)), publication(definition)])
  if (fault) throw new RuntimeError(`HAProxy answered ${fault.slice(0, 200)} when ${definition.name} was wanted again`)
}

/** Closes open sessions, because an incomplete backend has to be created again. */
export async function removeNow(settings: ProxySettings, name: string): Promise<void> {
  for (let attempt = 1; !(await remove(settings, name, true)); attempt++) {
    if (attempt === removalAttempts) throw new RuntimeError(`HAProxy does not remove ${name}`)
    await setTimeout(removalPauseMs)
  }
}
const removalAttempts = 20
const removalPauseMs = 50

/** The native backends of a running HAProxy, by name, and whether requests can reach them. */
export async function backendsInForce({
  runtimeSocket,
}: ProxySettings): Promise<Map<string, { isPublished: boolean }>> {
  return new Map(
    statRows(await ask(runtimeSocket, 'show stat -1 2 -1'))
      .filter((of) => nativeName.test(of('pxname')))
      .map((of) => [of('pxname'), { isPublished: !of('status').includes('UNPUB') }]),
  )
}

/**
 * Creates missing backends, and resolves to those to remove. A published backend is complete: publishing is the last
 * step of creation, and `unpublish` undoes it as the first step of removal.
 */
export async function bringBackendsUpToDate(
  settings: ProxySettings,
  wanted: Iterable<Definition>,
  isDown: IsDown,
): Promise<{ refused: Refused[]; unwanted: string[] }> {
  const found = await backendsInForce(settings)
  const missing: Definition[] = []
  for (const definition of wanted) {
    const before = found.get(definition.name)
    if (before?.isPublished === false) await removeNow(settings, definition.name)
    if (!before?.isPublished) missing.push(definition)
    found.delete(definition.name)
  }
  return { refused: await createBackends(settings, missing, isDown), unwanted: [...found.keys()] }
}

/** Stops new requests from choosing the backend, and stops its checks. */
export async function unpublish({ runtimeSocket }: ProxySettings, name: string): Promise<void> {
  const servers = await serversOf(runtimeSocket, name)
  for await (const _ of converse(
    runtimeSocket,
    joinedLines([`unpublish backend ${name}`, ...servers.map((server) => `disable health ${name}/${server}`)]),
  ));
}

/** True also for a backend that a worker has taken with it. */
export async function isIdle({ runtimeSocket }: ProxySettings, name: string): Promise<boolean> {
  const [of] = statRows(await ask(runtimeSocket, `show stat ${name} 2 -1`))
  return of?.('pxname') !== name || (of('scur') === '0' && of('qcur') === '0')
}

/** False while HAProxy still finishes a recent request or, unless `mustEnd` is set, while requests are open. */
export async function remove({ runtimeSocket }: ProxySettings, name: string, mustEnd: boolean): Promise<boolean> {
  const servers = await serversOf(runtimeSocket, name)
  const paths = servers.map((server) => `${name}/${server}`)
  const ending = mustEnd ? paths.map((path) => `shutdown sessions server ${path}`) : []
  const commands = [
    `unpublish backend ${name}`,
    ...paths.map((path) => `disable server ${path}`),
    ...ending,
    ...paths.map((path) => `del server ${path}`),
    `del backend ${name}`,
  ]
  let last = ''
  for await (const { answer } of converse(runtimeSocket, joinedLines(commands))) last = answer
  return last.endsWith('Backend deleted.') || last.endsWith('No such backend.')
}

async function serversOf(runtimeSocket: string, name: string): Promise<string[]> {
  const rows = await ask(runtimeSocket, `show servers state ${name}`)
  // `be_id be_name srv_id srv_name …`
  return rows.split('\n').flatMap((row) => {
    const [, backend, , server] = row.split(' ')
    return backend === name && server ? [server] : []
  })
}

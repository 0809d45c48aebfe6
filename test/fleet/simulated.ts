// Many nodes without HAProxy, 250 in a process: see simulated_nodes.ts.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { joinNode } from '../../src/commands/edge_node/join.ts'
import type { Cell } from '../../src/operations/placement.ts'
import type { Scope } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import type { Joining } from './joining.ts'
import type { Answered, Asked } from './simulated_nodes.ts'

const nodesPerProcess = 250

/** As `gatehouse edge join` does it, without starting a program for each. Resolves to the folders. */
export async function joinSimulated(
  fleet: Pick<Joining, 'invite' | 'origin'>,
  count: number,
  placeOf: (index: number) => { cell?: Cell | undefined; wave?: number },
): Promise<string[]> {
  const home = await mkdtemp(join(tmpdir(), 'gatehouse-fleet-'))
  const folders: string[] = []
  const left = Array.from({ length: count }, (_, index) => index)
  async function some(): Promise<void> {
    for (let index = left.pop(); index !== undefined; index = left.pop()) {
      const name = `simulated-${index}`
      const folder = join(home, name)
      await mkdir(folder)
      const { cell, wave } = placeOf(index)
      const token = await fleet.invite(name, cell, wave)
      await joinNode({ address: fleet.origin, token, name, folder, settings: join(folder, 'joined.env') })
      folders.push(folder)
    }
  }
  await Promise.all(Array.from({ length: 8 }, some))
  return folders
}

export async function startSimulated(scope: Scope, folders: readonly string[]) {
  const parts = Array.from({ length: Math.ceil(folders.length / nodesPerProcess) }, (_, index) =>
    folders.slice(index * nodesPerProcess, (index + 1) * nodesPerProcess),
  )
  const processes = parts.map(startPart)
  scope.after(kill)
  await Promise.all(processes.map(({ ask }, index) => ask({ start: parts[index] as string[] })))
  const total = async (field: 'ready' | 'errors' | 'had', question: Question = { state: true }) => {
    const answers = await Promise.all(processes.map(({ ask }) => ask(question)))
    return answers.reduce((sum, answered) => sum + (answered[field] ?? 0), 0)
  }
  async function kill(): Promise<void> {
    await Promise.all(processes.map(({ end }) => end()))
  }
  return {
    kill,
    pids: () => processes.map(({ pid }) => pid),
    allReady: () =>
      poll(
        () => total('ready'),
        (ready) => ready === folders.length,
        { everyMs: 500, withinSeconds: 600 },
      ),
    errors: () => total('errors'),
    /** What they have now is what they are to have. */
    remember: () => total('ready', { remember: true }),
    /** How many have had anything else under one of these keys. */
    haveHad: (keys: readonly string[]) => total('had', { keys }),
    /** Those in anything that they have had. */
    marks: async () =>
      (await Promise.all(processes.map(({ ask }) => ask({ marks: true })))).flatMap(({ marks = [] }) => marks),
    /** When the last node of the cell had applied it. */
    async applied(cell: string, generation: number): Promise<number> {
      const answers = await Promise.all(processes.map(({ ask }) => ask({ cell, generation })))
      return Math.max(...answers.map(({ at = 0 }) => at))
    },
  }
}
export type SimulatedNodes = Awaited<ReturnType<typeof startSimulated>>

type Question<Kind = Asked> = Kind extends Asked ? Omit<Kind, 'id'> : never

function startPart() {
  const child = fork(new URL('./simulated_nodes.ts', import.meta.url), {
    execArgv: ['--max-old-space-size=8192'],
  })
  const open = new Map<number, (answered: Answered) => void>()
  let asked = 0
  child.on('message', (answered: Answered) => {
    open.get(answered.id)?.(answered)
    open.delete(answered.id)
  })
  return {
    pid: child.pid,
    ask: (question: Question): Promise<Answered> =>
      new Promise((resolve) => {
        const id = asked++
        open.set(id, resolve)
        child.send({ id, ...question })
      }),
    async end(): Promise<void> {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

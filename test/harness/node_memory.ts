import { readFileSync } from 'node:fs'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import type { EdgeProcess } from './edge.ts'

/** The serving process of HAProxy, not its master. */
export async function haproxyWorker({ folder }: Pick<EdgeProcess, 'folder'>): Promise<number> {
  const processes = await ask(`${folder}/haproxy/master.sock`, 'show proc')
  return Number(/^(\d+)\s+worker\s/m.exec(processes)?.[1])
}

/** What HAProxy and the agent take of the memory of this machine, now and at most. Linux only. */
export async function memoryOf(edge: EdgeProcess): Promise<string> {
  return `HAProxy ${memory(await haproxyWorker(edge))}, agent ${memory(edge.child.pid)}`
}

function memory(pid: number | undefined): string {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const inMiB = (name: string) =>
    Math.round(Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0) / 1024)
  return `${inMiB('VmRSS')} MiB (at most ${inMiB('VmHWM')})`
}

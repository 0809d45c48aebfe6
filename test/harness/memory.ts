import { readFileSync } from 'node:fs'

/** The most memory that a process ever had, in MiB. Linux only. */
export function peakMemoryMiB(pid: number | undefined): number {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) / 1024
}

import { useSyncExternalStore } from 'react'

/** The newest change that this browser made: its number is in the answer, and edges report how far they are. */
export type Change = { generation: number; at: number }

const key = 'gatehouse-generation'
const listeners = new Set<() => void>()
let newest = read()

function read(): Change | undefined {
  try {
    const kept = JSON.parse(sessionStorage.getItem(key) ?? 'null')
    return typeof kept?.generation === 'number' && typeof kept.at === 'number' ? kept : undefined
  } catch {
    return undefined
  }
}

export function noteGeneration(generation: number): void {
  if (newest && newest.generation >= generation) return
  newest = { generation, at: Date.now() }
  sessionStorage.setItem(key, JSON.stringify(newest))
  for (const listener of listeners) listener()
}

export function forgetGeneration(): void {
  newest = undefined
  sessionStorage.removeItem(key)
  for (const listener of listeners) listener()
}

export const useNewestChange = (): Change | undefined =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => newest,
  )

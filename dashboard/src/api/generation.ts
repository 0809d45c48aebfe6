import { useSyncExternalStore } from 'react'

/** The latest change of this browser. If it concerns edges, its generation shows their progress. */
export type Change = { operationId: string; generation: number | undefined; at: number }

const key = 'gatehouse-change'
const listeners = new Set<() => void>()
let newest = read()

function read(): Change | undefined {
  try {
    const kept = JSON.parse(sessionStorage.getItem(key) ?? 'null')
    return typeof kept?.operationId === 'string' && typeof kept.at === 'number' ? kept : undefined
  } catch {
    return undefined
  }
}

export function noteChange(change: Omit<Change, 'at'>): void {
  newest = { ...change, at: Date.now() }
  sessionStorage.setItem(key, JSON.stringify(newest))
  for (const listener of listeners) listener()
}

export function forgetChange(): void {
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

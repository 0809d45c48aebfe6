import { useSyncExternalStore } from 'react'

const listeners = new Set<() => void>()
const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** What this browser prefers. public/theme.js sets the same attributes before the page is painted. */
function usePreference<Value extends string>(name: 'theme' | 'density', fallback: Value) {
  const key = `gatehouse-${name}`
  const value = useSyncExternalStore(subscribe, () => (localStorage.getItem(key) as Value | null) ?? fallback)
  function choose(chosen: Value): void {
    if (chosen === fallback) {
      localStorage.removeItem(key)
      delete document.documentElement.dataset[name]
    } else {
      localStorage.setItem(key, chosen)
      document.documentElement.dataset[name] = chosen
    }
    for (const listener of listeners) listener()
  }
  return [value, choose] as const
}

export const useTheme = () => usePreference<'system' | 'light' | 'dark'>('theme', 'system')
export const useDensity = () => usePreference<'comfortable' | 'compact'>('density', 'comfortable')

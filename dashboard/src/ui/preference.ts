import { useState } from 'react'

type Theme = 'system' | 'light' | 'dark'
type Density = 'comfortable' | 'compact'

/** What this browser prefers. public/theme.js sets the same attributes before the page is painted. */
function usePreference<Value extends string>(name: 'theme' | 'density', fallback: Value) {
  const key = `gatehouse-${name}`
  const [value, setValue] = useState((localStorage.getItem(key) as Value | null) ?? fallback)
  function choose(chosen: Value): void {
    setValue(chosen)
    if (chosen === fallback) {
      localStorage.removeItem(key)
      delete document.documentElement.dataset[name]
    } else {
      localStorage.setItem(key, chosen)
      document.documentElement.dataset[name] = chosen
    }
  }
  return [value, choose] as const
}

export const useTheme = () => usePreference<Theme>('theme', 'system')
export const useDensity = () => usePreference<Density>('density', 'comfortable')

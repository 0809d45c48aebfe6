import { useState } from 'react'
import { Icon, type IconName } from './ui/icons.tsx'

const themes = [
  { value: 'system', label: 'System theme', icon: 'system' },
  { value: 'light', label: 'Light', icon: 'light' },
  { value: 'dark', label: 'Dark', icon: 'dark' },
] as const satisfies readonly { value: string; label: string; icon: IconName }[]
type Theme = (typeof themes)[number]['value']

const key = 'gatehouse-theme'

/** public/theme.js reads the same key before the page is painted. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>((localStorage.getItem(key) as Theme | null) ?? 'system')
  function choose(chosen: Theme): void {
    setTheme(chosen)
    if (chosen === 'system') {
      localStorage.removeItem(key)
      delete document.documentElement.dataset.theme
    } else {
      localStorage.setItem(key, chosen)
      document.documentElement.dataset.theme = chosen
    }
  }
  return (
    <fieldset className="segments">
      <legend className="for-readers">Theme</legend>
      {themes.map(({ value, label, icon }) => (
        <label key={value} title={label}>
          <input type="radio" name="theme" value={value} checked={theme === value} onChange={() => choose(value)} />
          <Icon name={icon} />
          <span className="for-readers">{label}</span>
        </label>
      ))}
    </fieldset>
  )
}

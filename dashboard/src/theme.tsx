import { Icon, type IconName } from './ui/icons.tsx'
import { useTheme } from './ui/preference.ts'

export const themes = [
  { value: 'system', label: 'System theme', icon: 'system' },
  { value: 'light', label: 'Light', icon: 'light' },
  { value: 'dark', label: 'Dark', icon: 'dark' },
] as const satisfies readonly { value: string; label: string; icon: IconName }[]

export function ThemeSwitch() {
  const [theme, choose] = useTheme()
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

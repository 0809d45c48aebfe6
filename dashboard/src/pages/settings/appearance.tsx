import { themes } from '../../theme.tsx'
import { useDensity, useTheme } from '../../ui/preference.ts'
import { Segments } from '../../ui/segments.tsx'
import { Line } from './line.tsx'

const densities = [
  { value: 'comfortable', label: 'Comfortable' },
  { value: 'compact', label: 'Compact' },
] as const

export function Appearance() {
  const [theme, chooseTheme] = useTheme()
  const [density, chooseDensity] = useDensity()
  return (
    <>
      <Line
        title="Theme"
        end={
          <Segments
            label="Theme"
            labelHidden
            name="theme"
            value={theme}
            onChange={chooseTheme}
            options={themes.map(({ value, label }) => ({ value, label }))}
          />
        }
      />
      <Line
        title="Rows of tables"
        end={
          <Segments
            label="Rows of tables"
            labelHidden
            name="density"
            value={density}
            onChange={chooseDensity}
            options={densities}
          />
        }
      />
    </>
  )
}

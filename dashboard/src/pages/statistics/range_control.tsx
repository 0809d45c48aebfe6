import { Segments } from '../../ui/segments.tsx'
import { rangeNames, ranges, useRange } from './use_range.ts'

export function RangeControl() {
  const { name, setName } = useRange()
  return (
    <Segments
      label="Range"
      labelHidden
      name="range"
      value={name}
      onChange={setName}
      options={rangeNames.map((value) => ({ value, label: ranges[value].label }))}
    />
  )
}

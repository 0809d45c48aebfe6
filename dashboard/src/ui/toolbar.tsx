import type { ReactNode } from 'react'
import { Icon } from './icons.tsx'
import { useDensity } from './preference.ts'
import { useTyped } from './use_typed.ts'

export type Chip<Value extends string> = { value: Value; label: string; count?: number }
type Props<Value extends string> = {
  search: string
  onSearch: (text: string) => void
  /** What can be searched for: 'Name, owner or ID'. */
  placeholder: string
  chips?: readonly Chip<Value>[]
  chosen?: Value
  onChoose?: (value: Value) => void
  children?: ReactNode
  /** Buttons beside the one for the density. */
  end?: ReactNode
}

const count = new Intl.NumberFormat('en')

/** Above a table: its search, chips that choose among its rows, and how dense it is. */
export function Toolbar<Value extends string>(props: Props<Value>) {
  const { search, onSearch, placeholder, chips = [], chosen, onChoose, children, end } = props
  const [density, chooseDensity] = useDensity()
  const typed = useTyped(search, onSearch)
  const isCompact = density === 'compact'
  return (
    <div className="toolbar">
      <label className="search-field">
        <Icon name="search" />
        <input
          type="search"
          aria-label="Search"
          placeholder={placeholder}
          value={typed.value}
          spellCheck={false}
          autoComplete="off"
          onChange={({ target }) => typed.onChange(target.value)}
          onBlur={typed.onBlur}
        />
      </label>
      {chips.length > 0 && (
        <fieldset className="chips">
          <legend className="for-readers">Show</legend>
          {chips.map(({ value, label, count: rows }) => (
            <button
              key={value}
              type="button"
              className="chip"
              aria-pressed={chosen === value}
              onClick={() => onChoose?.(value)}
            >
              {label} {rows !== undefined && <span className="count">{count.format(rows)}</span>}
            </button>
          ))}
        </fieldset>
      )}
      {children}
      <span className="end hide-small">
        <button
          type="button"
          className="button quiet icon-only"
          aria-label="Compact rows"
          aria-pressed={isCompact}
          title="Compact rows"
          onClick={() => chooseDensity(isCompact ? 'comfortable' : 'compact')}
        >
          <Icon name="density" />
        </button>
        {end}
      </span>
    </div>
  )
}

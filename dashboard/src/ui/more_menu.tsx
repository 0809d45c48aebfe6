import { lazy, type ReactNode, Suspense, useRef, useState } from 'react'
import { Icon } from './icons.tsx'
import type { MenuGroup } from './menu.tsx'

// Lazy: loaded when the pointer reaches a menu's button.
const loadMenu = async () => ({ default: (await import('./menu.tsx')).ActionMenu })
const ActionMenu = lazy(loadMenu)

type Props = {
  label: string
  /** Evaluated when the menu opens. */
  groups: () => readonly MenuGroup[]
  className?: string
  placement?: 'bottom end' | 'top start'
  children?: ReactNode
}

/**
 * A button that opens a menu; by default the three dots at the end of a row. A native button, because tables contain
 * many.
 */
export function MoreMenu({ label, groups, className = 'more', placement, children }: Props) {
  const button = useRef<HTMLButtonElement>(null)
  const [isOpen, setOpen] = useState(false)
  const fetchMenu = () => {
    loadMenu().catch(() => {})
  }
  return (
    <>
      <button
        ref={button}
        type="button"
        className={className}
        aria-label={children ? undefined : label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onPointerEnter={fetchMenu}
        onFocus={fetchMenu}
        onClick={() => setOpen(true)}
      >
        {children ?? <Icon name="more" />}
      </button>
      {isOpen && (
        <Suspense>
          <ActionMenu
            label={label}
            trigger={button}
            placement={placement}
            groups={groups()}
            onClose={() => setOpen(false)}
          />
        </Suspense>
      )}
    </>
  )
}

/** Actions in a page header that have no button of their own. */
export const PageMenu = ({ groups }: Pick<Props, 'groups'>) => (
  <MoreMenu label="More actions" className="button plain icon-only" groups={groups} />
)

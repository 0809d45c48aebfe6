import type { RefObject } from 'react'
import { Header, Menu, MenuItem, MenuSection, Popover, Separator } from 'react-aria-components'
import { Icon, type IconName } from './icons.tsx'

export type MenuEntry = {
  label: string
  icon?: IconName
  /** For destructive actions. */
  isDanger?: boolean
  /** Selected option of several exclusive ones. */
  isChosen?: boolean
  onAction: () => void
}
export type MenuGroup = { title?: string; entries: readonly MenuEntry[] }

type Props = {
  label: string
  trigger: RefObject<HTMLElement | null>
  groups: readonly MenuGroup[]
  onClose: () => void
  placement?: 'bottom end' | 'top start'
}

/** An open menu beside its button. Loaded on first use; see more_menu.tsx. */
export function ActionMenu({ label, trigger, groups, onClose, placement = 'bottom end' }: Props) {
  return (
    <Popover
      className="popover"
      aria-label={label}
      isOpen
      triggerRef={trigger}
      placement={placement}
      onOpenChange={(isOpen) => !isOpen && onClose()}
    >
      <Menu className="menu-list" aria-label={label} autoFocus="first" onClose={onClose}>
        {groups.map(({ title, entries }, index) => (
          <MenuSection key={title ?? index} aria-label={title ?? label}>
            {title && <Header className="menu-title">{title}</Header>}
            {entries.map(({ label, icon, isDanger, isChosen, onAction }) => (
              <MenuItem
                key={label}
                id={`${index} ${label}`}
                textValue={label}
                className={isDanger ? 'menu-item danger' : 'menu-item'}
                onAction={onAction}
              >
                {icon && <Icon name={icon} />}
                <span>{label}</span>
                {isChosen && (
                  <>
                    <span className="for-readers">, chosen</span>
                    <Icon name="allowed" />
                  </>
                )}
              </MenuItem>
            ))}
            {index < groups.length - 1 && <Separator />}
          </MenuSection>
        ))}
      </Menu>
    </Popover>
  )
}

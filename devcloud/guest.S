# The disk of a guest: a boot sector that SeaBIOS starts, in milliseconds even in emulation.
#
#     as guest.S -o guest.o && ld -Ttext 0x7c00 --oformat binary guest.o -o guest.raw
#
# It writes to the first serial port, Nova's console log, and sleeps. It does what Nova waits for: it
# powers off when ACPI's power button is pressed, and it gives up a PCI device that is unplugged.
# The ports are those of QEMU's machine type "pc".
	.code16
	.globl	_start
	.set	COM1, 0x3f8
	.set	PM1_STATUS, 0x600
	.set	PM1_ENABLE, 0x602
	.set	PM1_CONTROL, 0x604
	.set	POWER_BUTTON, 0x100
	.set	POWER_OFF, 0x2000
	.set	HOTPLUG_DOWN, 0xae04
	.set	HOTPLUG_EJECT, 0xae08
	.set	HOTPLUG_BUS, 0xae10

_start:	cli
	xorw	%ax, %ax
	movw	%ax, %ds
	movw	%ax, %ss
	movw	$_start, %sp
	cld
	movb	$40, %bl		# lines: Tempest asks for 10 of them
again:	movw	$words, %si
	call	print
	decb	%bl
	jnz	again
	movw	$PM1_ENABLE, %dx
	inw	%dx, %ax
	orw	$POWER_BUTTON, %ax
	outw	%ax, %dx
	movw	$HOTPLUG_BUS, %dx	# bus 0
	xorl	%eax, %eax
	outl	%eax, %dx
	sti

sleep:	hlt				# until the timer's next interrupt
	movw	$HOTPLUG_DOWN, %dx
	inl	%dx, %eax
	testl	%eax, %eax
	jz	button
	movw	$HOTPLUG_EJECT, %dx
	outl	%eax, %dx
button:	movw	$PM1_STATUS, %dx
	inw	%dx, %ax
	testw	$POWER_BUTTON, %ax
	jz	sleep
	movw	$PM1_CONTROL, %dx
	movw	$POWER_OFF, %ax
	outw	%ax, %dx
	jmp	sleep

print:	lodsb				# until the byte 0
	testb	%al, %al
	jz	1f
	movb	%al, %ah
	movw	$COM1 + 5, %dx
0:	inb	%dx, %al
	testb	$0x20, %al		# until the port takes a byte
	jz	0b
	movb	%ah, %al
	movw	$COM1, %dx
	outb	%al, %dx
	jmp	print
1:	ret

words:	.asciz	"This guest of rtagent's cloud is up, and sleeps.\r\n"

	.org	446			# without a partition, Glance refuses the disk
	.byte	0x80, 0, 2, 0, 0x83, 0, 0, 0
	.long	1, 2047
	.org	510
	.word	0xaa55

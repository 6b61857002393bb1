"""Django on psycopg against PGHOST and PGPORT: its own applications migrated, models changed by migrations, the admin."""

import datetime as dt
import decimal
import importlib
import os
import sys
import tempfile
import textwrap
import unittest

import django
from django.conf import settings

# Migrations are files of an application, which therefore lies in a directory of its own.
directory = tempfile.TemporaryDirectory()
sys.path.insert(0, directory.name)
os.makedirs(os.path.join(directory.name, "shop", "migrations"))
for empty in ("shop/__init__.py", "shop/migrations/__init__.py"):
    open(os.path.join(directory.name, empty), "w", encoding="utf8").close()


with open(os.path.join(directory.name, "shop", "models.py"), "w", encoding="utf8") as file:
    file.write(
        textwrap.dedent(
            """
            from django.contrib.postgres.fields import ArrayField
            from django.db import models
            from django.db.models.functions import Now

            class Customer(models.Model):
                name = models.CharField(max_length=40, db_index=True)
                email = models.EmailField(unique=True)
                since = models.DateTimeField(db_default=Now())
                friends = models.ManyToManyField("self")

            class Item(models.Model):
                name = models.CharField(max_length=40)
                price = models.DecimalField(max_digits=10, decimal_places=2)
                tags = ArrayField(models.CharField(max_length=10), default=list)
                extra = models.JSONField(default=dict)
                code = models.UUIDField(null=True, blank=True)
                doubled = models.GeneratedField(
                    expression=models.F("price") * 2, output_field=models.DecimalField(max_digits=11, decimal_places=2),
                    db_persist=True)

                class Meta:
                    indexes = [models.Index(fields=["name", "-price"], name="by_name")]
                    constraints = [
                        models.CheckConstraint(condition=models.Q(price__gte=0), name="price_is_positive"),
                        models.UniqueConstraint(fields=["name", "price"], name="one_name"),
                    ]

            class Order(models.Model):
                customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="orders")
                items = models.ManyToManyField(Item, through="Line")
                day = models.DateField()
                open = models.BooleanField(default=True)
                took = models.DurationField(null=True)

            class Line(models.Model):
                order = models.ForeignKey(Order, on_delete=models.CASCADE)
                item = models.ForeignKey(Item, on_delete=models.PROTECT)
                count = models.PositiveIntegerField(default=1)
            """
        )
    )

settings.configure(
    SECRET_KEY="test",
    USE_TZ=True,
    ROOT_URLCONF="urls",
    ALLOWED_HOSTS=["testserver"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["PGDATABASE"],
            "USER": os.environ["PGUSER"],
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
        }
    },
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.postgres",
        "django.contrib.sessions",
        "shop",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
)
with open(os.path.join(directory.name, "urls.py"), "w", encoding="utf8") as urls:
    urls.write(
        textwrap.dedent(
            """
            from django.contrib import admin
            from django.urls import path
            from shop.models import Customer, Item
            admin.site.register([Customer, Item])
            urlpatterns = [path("admin/", admin.site.urls)]
            """
        )
    )
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, migrations, models, transaction  # noqa: E402
from django.db.migrations.executor import MigrationExecutor  # noqa: E402
from django.db.models import Count, Exists, F, OuterRef, Q, Subquery, Sum, Window  # noqa: E402
from django.db.models.functions import Rank, TruncMonth  # noqa: E402
from django.test import Client  # noqa: E402
from shop.models import Customer, Item, Line, Order  # noqa: E402

call_command("makemigrations", "shop", verbosity=0)
importlib.invalidate_caches()
call_command("migrate", verbosity=0)


class Base(unittest.TestCase):
    def setUp(self):
        self.addCleanup(lambda: [m.objects.all().delete() for m in (Line, Order, Item, Customer, User)])
        self.anna = Customer.objects.create(name="Anna", email="a@x.org")
        self.ben = Customer.objects.create(name="Ben", email="b@x.org")
        self.anna.friends.add(self.ben)
        self.tea = Item.objects.create(name="tea", price=decimal.Decimal("2.50"), tags=["hot", "wet"], extra={"a": {"b": 1}})
        self.cup = Item.objects.create(name="cup", price=decimal.Decimal("7"), extra={"a": [1, 2]})
        for month in (1, 1, 2):
            order = Order.objects.create(customer=self.anna, day=dt.date(2024, month, 3), took=dt.timedelta(minutes=month))
            Line.objects.create(order=order, item=self.tea, count=month)


class Queries(Base):
    def test_relations(self):
        with_all = Order.objects.select_related("customer").prefetch_related("items").order_by("id")
        self.assertEqual([(o.customer.name, len(o.items.all())) for o in with_all], [("Anna", 1)] * 3)
        self.assertEqual(list(self.ben.friends.values_list("name", flat=True)), ["Anna"])
        self.assertEqual(Customer.objects.filter(orders__items__name="tea").distinct().count(), 1)
        without = Customer.objects.filter(~Exists(Order.objects.filter(customer=OuterRef("pk"))))
        self.assertEqual([c.name for c in without], ["Ben"])

    def test_aggregates_windows_and_subqueries(self):
        sums = Order.objects.annotate(month=TruncMonth("day")).values("month").annotate(n=Sum("line__count")).order_by("month")
        self.assertEqual([(s["month"].month, s["n"]) for s in sums], [(1, 2), (2, 2)])
        latest = Order.objects.filter(customer=OuterRef("pk")).order_by("-day").values("day")[:1]
        days = Customer.objects.annotate(latest=Subquery(latest), n=Count("orders")).order_by("name")
        self.assertEqual([(c.latest, c.n) for c in days], [(dt.date(2024, 2, 3), 3), (None, 0)])
        ranked = Item.objects.annotate(rank=Window(Rank(), order_by=F("price").desc())).order_by("name")
        self.assertEqual([(i.name, i.rank) for i in ranked], [("cup", 1), ("tea", 2)])
        self.assertEqual([i.doubled for i in ranked], [decimal.Decimal("14.00"), decimal.Decimal("5.00")])
        both = Item.objects.filter(name="tea").union(Item.objects.filter(name="cup")).order_by("name")
        self.assertEqual([i.name for i in both], ["cup", "tea"])

    def test_arrays_json_and_texts(self):
        self.assertEqual(Item.objects.filter(tags__contains=["hot"]).count(), 1)
        self.assertEqual(Item.objects.filter(tags__overlap=["hot", "x"], tags__len=2).count(), 1)
        self.assertEqual(Item.objects.filter(extra__a__b=1).get().name, "tea")
        self.assertEqual(Item.objects.filter(extra__has_key="a").count(), 2)
        self.assertEqual(Item.objects.filter(extra__a__1=2).get().name, "cup")
        self.assertEqual(Customer.objects.filter(Q(name__istartswith="an") | Q(email__iregex="^zz")).get(), self.anna)
        self.assertEqual(Order.objects.filter(day__year=2024, took__gt=dt.timedelta(seconds=90)).count(), 1)

    def test_writes(self):
        self.assertEqual(Item.objects.filter(name="tea").update(price=F("price") + 1), 1)
        made = Item.objects.bulk_create([Item(name=f"i{n}", price=n) for n in range(200)])
        self.assertEqual(len({i.pk for i in made}), 200)
        for item in made:
            item.price += 1
        Item.objects.bulk_update(made, ["price"], batch_size=50)
        Item.objects.bulk_create(
            [Item(name="i1", price=2, tags=["new"])], update_conflicts=True, unique_fields=["name", "price"],
            update_fields=["tags"])
        self.assertEqual(Item.objects.get(name="i1").tags, ["new"])
        _, created = Customer.objects.update_or_create(email="a@x.org", defaults={"name": "Anne"})
        self.assertFalse(created)
        self.assertEqual(Item.objects.filter(name__startswith="i").delete()[0], 200)
        with self.assertRaises(models.ProtectedError):
            self.tea.delete()

    def test_transactions(self):
        with transaction.atomic():
            with self.assertRaises(IntegrityError), transaction.atomic():
                Customer.objects.create(name="X", email="a@x.org")
            self.assertEqual(list(Customer.objects.select_for_update().filter(name="Ben")), [self.ben])
            self.assertEqual(Customer.objects.select_for_update(skip_locked=True, of=("self",)).count(), 2)
        done = []
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            transaction.on_commit(lambda: done.append(1))
            Customer.objects.all().update(name="lost")
            raise ZeroDivisionError
        self.assertEqual((Customer.objects.filter(name="lost").count(), done), (0, []))
        with self.assertRaises(IntegrityError), transaction.atomic():
            # Django's foreign keys are checked at the end of the transaction.
            Order.objects.create(customer_id=4711, day=dt.date(2024, 1, 1))
        with connection.cursor() as cursor:
            self.assertIn("shop_order", connection.introspection.table_names(cursor))
            constraints = connection.introspection.get_constraints(cursor, "shop_item")
            self.assertTrue(constraints["price_is_positive"]["check"] and constraints["by_name"]["index"])
            relations = connection.introspection.get_relations(cursor, "shop_order")
            self.assertEqual(relations["customer_id"][:2], ("id", "shop_customer"))


class Admin(Base):
    def test_items_are_listed_changed_and_deleted(self):
        User.objects.create_superuser("root", password="secret")
        client = Client()
        self.assertTrue(client.login(username="root", password="secret"))
        self.assertContains(client.get("/admin/shop/item/?q="), "2 items")
        data = {"name": "pot", "price": "12.00", "tags": "a,b", "extra": "[1]", "code": ""}
        self.assertEqual(client.post("/admin/shop/item/add/", data).status_code, 302)
        pot = Item.objects.get(name="pot")
        self.assertContains(client.get(f"/admin/shop/item/{pot.pk}/history/"), "Added")
        self.assertEqual(client.post(f"/admin/shop/item/{pot.pk}/delete/", {"post": "yes"}).status_code, 302)
        self.assertFalse(Item.objects.filter(name="pot").exists())

    def assertContains(self, response, text):
        self.assertEqual(response.status_code, 200)
        self.assertIn(text, response.content.decode())


class Migrations(Base):
    def test_changed_models_change_the_schema(self):
        class Change(migrations.Migration):
            operations = [
                migrations.AddField("item", "weight", models.FloatField(default=1.5, db_index=True)),
                migrations.AlterField("item", "name", models.TextField()),
                migrations.RenameField("item", "code", "number"),
                migrations.RenameModel("Line", "Position"),
                migrations.RemoveConstraint("item", "one_name"),
                migrations.AlterUniqueTogether("item", {("name", "number")}),
                migrations.AddIndex("item", models.Index(fields=["weight"], name="by_weight", condition=Q(weight__gt=1))),
                migrations.RunSQL("UPDATE shop_item SET weight = 3 WHERE name = 'tea'", migrations.RunSQL.noop),
                migrations.AddField("order", "seller", models.ForeignKey("shop.Customer", models.SET_NULL, null=True,
                                                                         related_name="sold")),
                migrations.AlterField("order", "open", models.CharField(max_length=5, default="yes")),
            ]

        state = MigrationExecutor(connection).loader.project_state()
        change = Change("0002_change", "shop")
        with connection.schema_editor(atomic=True) as editor:
            after = change.apply(state.clone(), editor)
        item = after.apps.get_model("shop", "Item")
        self.assertEqual(sorted(item.objects.values_list("name", "weight")), [("cup", 1.5), ("tea", 3.0)])
        self.assertEqual(after.apps.get_model("shop", "Order").objects.filter(open="true").count(), 3)
        with connection.schema_editor(atomic=True) as editor:
            change.unapply(state.clone(), editor)
        self.assertEqual(Order.objects.filter(open=True).count(), 3)
        self.assertEqual(Line.objects.count(), 3)

    def test_databases_for_tests(self):
        """As `manage.py test` does: a database of its own, with the migrations, that is dropped in the end."""
        name, items = settings.DATABASES["default"]["NAME"], Item.objects.count()
        connection.creation.create_test_db(verbosity=0, autoclobber=True)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_database()")
                self.assertEqual(cursor.fetchone(), ("test_" + name,))
            self.assertEqual(Item.objects.count(), 0)
            Item.objects.create(name="only here", price=1)
        finally:
            connection.creation.destroy_test_db(name, verbosity=0)
        self.assertEqual(Item.objects.count(), items)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_database WHERE datname = %s", ["test_" + name])
            self.assertEqual(cursor.fetchone(), (0,))


if __name__ == "__main__":
    unittest.main()
